// The page's elements: made once, then changed where something has changed, so that focus, selection and open details stay.
// Everything that comes from outside becomes text, never markup.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

// The text of an element that has nothing else. The text node stays, and with it whatever is selected around it.
export function say(node, text) {
  const words = String(text);
  const only = node.firstChild;
  if (only === null) {
    if (words !== '') node.append(words);
  } else if (only.data !== words) {
    only.data = words;
  }
}

// As `say`; without anything to say, the element is not shown.
export function sayOrHide(node, text) {
  const nothing = text === null || text === undefined || text === '';
  if (!nothing) say(node, text);
  show(node, !nothing);
}

export function show(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

export function mark(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

// So many that are gone are kept in a list: who comes back, after a restart or a filter, is as open as before.
const KEPT = 64;

// Children of `parent`, one for each item, known by their keys: `make()` gives `{ node, update(item, context) }`.
export function keyed(parent, make) {
  let parts = new Map();
  const gone = new Map();
  return (items, keyOf, context) => {
    const wanted = new Map();
    items.forEach((item, index) => {
      let key = keyOf(item, index);
      if (wanted.has(key)) key = `${key} again ${index}`;
      const part = parts.get(key) ?? gone.get(key) ?? make(item);
      gone.delete(key);
      wanted.set(key, part);
      part.update(item, context);
    });
    for (const [key, part] of parts) {
      if (wanted.has(key)) continue;
      remove(part.node);
      gone.set(key, part);
    }
    for (const key of gone.keys()) if (gone.size > KEPT) gone.delete(key);
    parts = wanted;
    place(parent, Array.from(wanted.values(), (part) => part.node));
    return parts;
  };
}

// Whoever was in there with the keyboard is not thrown back to the top of the page.
function remove(node) {
  const near = node.contains(document.activeElement) ? node.parentElement.closest('[tabindex]') : null;
  node.remove();
  near?.focus({ preventScroll: true });
}

// Brings children in order. The one with the focus or the selection is not moved, as it would lose them: others move around it.
function place(parent, nodes) {
  const busy = nodes.findIndex((node) => node.parentNode === parent && isUsed(node));
  const from = Math.max(busy, 0);
  if (nodes.length > 0 && busy < 0 && parent.firstChild !== nodes[0]) parent.prepend(nodes[0]);
  for (let at = from + 1; at < nodes.length; at++) {
    if (nodes[at - 1].nextSibling !== nodes[at]) nodes[at - 1].after(nodes[at]);
  }
  for (let at = from - 1; at >= 0; at--) {
    if (nodes[at + 1].previousSibling !== nodes[at]) nodes[at + 1].before(nodes[at]);
  }
}

function isUsed(node) {
  if (node.contains(document.activeElement)) return true;
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed && node.contains(selection.anchorNode);
}

// A list of figures: `{ label: value }`, in the order of their first appearance.
export function figures(attributes = {}) {
  const node = el('dl', { class: 'figures', ...attributes });
  const update = keyed(node, () => {
    const [name, value] = [el('dt'), el('dd')];
    return {
      node: el('div', {}, name, value),
      update([label, text, level]) {
        say(name, label);
        say(value, text);
        mark(value, 'data-level', level);
      },
    };
  });
  return { node, update: (rows) => update(rows.filter((row) => row), ([label]) => label) };
}
