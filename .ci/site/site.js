// The menu of narrow windows, the colours, and the search over index.js, which is loaded when somebody begins to search.
"use strict"
const byId = name => document.getElementById(name)
const input = byId("search"), found = byId("found"), pages = byId("pages")

byId("menu").onclick = () => byId("menu").setAttribute("aria-expanded", pages.classList.toggle("open"))
pages.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" })
byId("theme").onclick = () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "light dark"
    ? matchMedia("(prefers-color-scheme: dark)").matches : document.documentElement.dataset.theme === "dark"
  document.documentElement.dataset.theme = isDark ? "light" : "dark"
  try { localStorage.theme = document.documentElement.dataset.theme } catch { /* the choice ends with the page */ }
}

let index // a promise
const load = () => index ??= new Promise((done, failed) => {
  const script = document.createElement("script")
  script.src = up + "index.js"
  script.onload = () => done(entries.map(e => ({ ...e, low: (e.p + " " + e.h + " " + e.t).toLowerCase() })))
  script.onerror = failed
  document.head.append(script)
})
input.onfocus = load

// score says how well a section matches all words; 0 is not at all.
const score = (e, words) => {
  let sum = 0
  for (const word of words) {
    if (!e.low.includes(word)) return 0
    sum += 1 + (e.p.toLowerCase().includes(word) ? 4 : 0) + (e.h.toLowerCase().includes(word) ? 6 : 0)
      + Math.min(3, e.low.split(word).length - 1) / 3
  }
  return sum
}

// around returns the text about the first word.
const around = (e, word) => {
  const at = Math.max(0, e.t.toLowerCase().indexOf(word) - 50)
  return (at > 0 ? "…" : "") + e.t.slice(at, at + 150) + (at + 150 < e.t.length ? "…" : "")
}

const show = items => {
  found.replaceChildren(...items)
  found.hidden = items.length === 0
  input.setAttribute("aria-expanded", !found.hidden)
}

input.oninput = async () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
  const all = await load()
  if (words.length === 0) return show([])
  const best = all.map(e => [score(e, words), e]).filter(([n]) => n > 0).sort((a, b) => b[0] - a[0]).slice(0, 20)
  const item = (...content) => {
    const li = document.createElement("li")
    li.append(...content)
    return li
  }
  if (best.length === 0) {
    const p = document.createElement("p")
    p.textContent = "No page has all of these words."
    return show([item(p)])
  }
  show(best.map(([, e]) => {
    const a = document.createElement("a"), small = document.createElement("small")
    a.href = up + e.u
    a.textContent = e.h ? `${e.p} › ${e.h}` : e.p
    small.textContent = around(e, words[0])
    a.append(small)
    return item(a)
  }))
}

addEventListener("keydown", event => {
  const links = [...found.querySelectorAll("a")], at = links.indexOf(document.activeElement)
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
    event.preventDefault()
    input.focus()
  } else if (event.key === "Escape") {
    show([])
  } else if (!found.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
    event.preventDefault()
    const to = at + (event.key === "ArrowDown" ? 1 : -1)
    to < 0 ? input.focus() : links[Math.min(to, links.length - 1)]?.focus()
  } else if (event.key === "Enter" && document.activeElement === input) {
    links[0]?.click()
  }
})
addEventListener("click", event => { if (!event.target.closest("search")) show([]) })
