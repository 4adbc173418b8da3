import mermaidUrl from '@mermaid-js/tiny/dist/mermaid.tiny.js?url'
import { useData } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { h, onMounted, ref, watch } from 'vue'
import './style.css'

let diagrams = 0
let mermaidLoaded

/** Loads Mermaid once, on pages with diagrams only. It is not a module: it sets a global variable. */
function loadMermaid () {
  mermaidLoaded ??= new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement('script'), { src: mermaidUrl, onload: () => resolve(globalThis.mermaid), onerror: reject })
    document.head.append(script)
  })
  return mermaidLoaded
}

/** A diagram of Mermaid, in the colors of the page. Without JavaScript, its text is shown. */
const Diagram = {
  props: ['text'],
  setup ({ text }) {
    const { isDark } = useData()
    const svg = ref()
    const id = `diagram-${++diagrams}`
    async function draw () {
      const mermaid = await loadMermaid()
      mermaid.initialize({ startOnLoad: false, theme: isDark.value ? 'dark' : 'neutral' })
      svg.value = (await mermaid.render(id, text)).svg
    }
    onMounted(() => watch(isDark, draw, { immediate: true }))
    return () => svg.value === undefined ? h('pre', { class: 'diagram' }, text) : h('div', { class: 'diagram', innerHTML: svg.value })
  }
}

export default {
  extends: DefaultTheme,
  enhanceApp ({ app }) {
    app.component('Diagram', Diagram)
  },
  setup () {
    const { isDark } = useData()
    // The pages of TypeDoc follow the choice of light or dark.
    onMounted(() => watch(isDark, (dark) => localStorage.setItem('tsd-theme', dark ? 'dark' : 'light'), { immediate: true }))
  }
}
