/** Words for devices, by patterns of the User-Agent header. The first that matches decides: Edge and Opera also say that they are Chrome. */
const browsers = {
  Edge: /\bEdg(?:A|iOS)?\//,
  Opera: /\bOPR\//,
  Firefox: /\b(?:Firefox|FxiOS)\//,
  Chrome: /\b(?:Headless)?Chrome\/|\bCriOS\//,
  Safari: /\bSafari\//,
  curl: /^curl\//
}
const systems = {
  Android: /\bAndroid\b/,
  iOS: /\b(?:iPhone|iPad)\b/,
  Windows: /\bWindows\b/,
  macOS: /\bMacintosh\b/,
  ChromeOS: /\bCrOS\b/,
  Linux: /\bLinux\b/
}

const match = (patterns, text) => Object.keys(patterns).find((name) => patterns[name].test(text))

/**
 * Describes a device in words, such as "Firefox on Windows". Returns words of the lists above only, because clients can
 * send any text as their User-Agent.
 */
export function describeDevice (userAgent = '') {
  const browser = match(browsers, userAgent)
  const system = match(systems, userAgent)
  if (browser === undefined) return system ?? 'Unknown device'
  return system === undefined ? browser : `${browser} on ${system}`
}
