// A panel: its lamp and name, what is wrong with it, its figures, and whatever it is about.

import { el, figures, mark, say, sayOrHide } from './dom.js';
import { lampOf } from './trouble.js';

export function makePanel(level = 'h3') {
  const lamp = el('span', { class: 'lamp', role: 'img' });
  const name = el('bdi');
  const notes = el('span', { class: 'notes quiet' });
  const facts = figures();
  const trouble = el('p', { class: 'trouble' });
  const body = el('div', { class: 'body' });
  const head = el('header', {}, el('div', { class: 'title' }, el(level, {}, lamp, name), notes), facts.node);
  const node = el('article', { class: 'panel', tabindex: '-1' }, head, trouble, body);
  return {
    node,
    body,
    update({ id, title, about, facts: rows, trouble: level, words, state }) {
      mark(node, 'id', id);
      mark(node, 'data-trouble', level);
      mark(lamp, 'data-lamp', state === 'stopping' || state === 'stopped' ? 'stop' : lampOf(level));
      mark(lamp, 'aria-label', ['works', 'worth a look', 'in trouble', 'does not work'][level]);
      say(name, title);
      say(notes, about.filter(Boolean).join(' · '));
      facts.update(rows);
      sayOrHide(trouble, words);
    },
  };
}

// Further figures, closed until somebody wants them.
export function makeDetails() {
  const facts = figures();
  const whose = el('span', { class: 'unseen' });
  return {
    node: el('details', {}, el('summary', {}, 'Figures', whose), facts.node),
    update(name, rows) {
      say(whose, ` of ${name}`);
      facts.update(rows);
    },
  };
}

// A bar that shows a part of a whole, and is read out as such.
export function makeBar(label) {
  const fill = el('span', { class: 'fill' });
  const node = el('span', { class: 'bar', role: 'meter', 'aria-label': label, 'aria-valuemin': '0' }, fill);
  return {
    node,
    update(value, most, words, level) {
      fill.style.setProperty('--part', partOf(value, most).toFixed(4));
      mark(node, 'aria-valuenow', Math.min(value, most));
      mark(node, 'aria-valuemax', most);
      mark(node, 'aria-valuetext', words);
      mark(node, 'data-level', level);
    },
  };
}

// Where there is a little, or a little room, one can see it.
function partOf(value, most) {
  if (value === 0 || most === 0) return 0;
  return value >= most ? 1 : Math.min(Math.max(value / most, 0.02), 0.98);
}

// A thin bar that gets shorter as time runs out; what it says stands beside it.
export function makeRest() {
  const fill = el('span', { class: 'fill' });
  return { node: el('span', { class: 'rest', 'aria-hidden': 'true' }, fill), update: (part) => fill.style.setProperty('--part', part.toFixed(3)) };
}
