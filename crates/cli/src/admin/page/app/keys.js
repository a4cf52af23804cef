// The keyboard: one key for what is done often. `?` lists them.

import { byId } from './dom.js';

const KEYS = {
  '/': () => byId('filter').focus(),
  '?': openHelp,
  e: toggleDetails,
  j: () => step(1, '.panel'),
  k: () => step(-1, '.panel'),
  p: () => byId('hold').click(),
  t: () => step(1, '.panel[data-trouble]:not([data-trouble="0"])'),
};

export function listen() {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === 'Escape') return escape(event);
    // One that was just closed has the focus until the page is drawn again.
    const typing = event.target.closest('input, select, textarea, dialog[open]');
    const act = typing === null ? KEYS[event.key] : undefined;
    if (act === undefined) return;
    event.preventDefault();
    act();
  });
  byId('help').addEventListener('click', openHelp);
  byId('keys-close').addEventListener('click', () => byId('keys').close());
}

function openHelp() {
  byId('keys').showModal();
}

// A dialog closes by itself.
function escape(event) {
  if (byId('keys').open || byId('filter').value === '') return;
  event.preventDefault();
  byId('filter').value = '';
  byId('filter').dispatchEvent(new Event('input'));
}

function step(by, which) {
  const panels = Array.from(document.querySelectorAll(which)).filter((panel) => panel.checkVisibility());
  if (panels.length === 0) return;
  const here = panels.findIndex((panel) => panel.contains(document.activeElement));
  const from = here < 0 && by < 0 ? 0 : here;
  const next = panels[(from + by + panels.length) % panels.length];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: 'nearest' });
}

function toggleDetails() {
  const all = Array.from(document.querySelectorAll('main details'));
  const open = all.some((details) => !details.open);
  for (const details of all) details.open = open;
}
