import { useData } from 'vitepress'
import DefaultTheme from 'vitepress/theme-without-fonts'
import { h, onMounted, watch } from 'vue'
import './style.css'
import './diagrams.css'
import './landing.css'

export default {
  extends: DefaultTheme,
  // The theme gives pages that are not found no landmark.
  Layout: () => h(DefaultTheme.Layout, null, {
    'not-found': () => h('main', { class: 'vp-doc not-found' }, [h('h1', 'Page not found'), h('p', ['Use the search, or go to the ', h('a', { href: '/' }, 'beginning'), '.'])])
  }),
  setup () {
    const { isDark } = useData()
    // The pages of TypeDoc follow the choice of light or dark.
    onMounted(() => watch(isDark, (dark) => localStorage.setItem('tsd-theme', dark ? 'dark' : 'light'), { immediate: true }))
  }
}
