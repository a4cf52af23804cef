// A strip of cells, one for each slot or connection. A cell says what it is by its letter, its pattern and its colour; with many
// of them they shrink, the letter goes, and the pattern stays.

import { el, mark, say } from './dom.js';

const LETTERS = { held: 'H', connecting: 'C', backoff: 'W', idle: 'I', busy: 'B', checking: 'K', closing: 'X' };

// Cells with letters, without, and as small as they get; by how many there are in all.
const MEDIUM_FROM = 96;
const SMALL_FROM = 360;

export const sizeOf = (cells) => (cells >= SMALL_FROM ? 'small' : cells >= MEDIUM_FROM ? 'medium' : 'large');

export function makeStrip() {
  const node = el('span', { class: 'strip', role: 'img' });
  const cells = [];
  return {
    node,
    // `wanted`: `{ cell, text, kept, draining }` for each; `words`: all of it for those who cannot see it.
    update(wanted, size, words) {
      mark(node, 'data-size', size);
      mark(node, 'aria-label', words);
      mark(node, 'title', words);
      while (cells.length > wanted.length) cells.pop().remove();
      while (cells.length < wanted.length) {
        const cell = el('span', { class: 'cell' });
        cells.push(cell);
        node.append(cell);
      }
      wanted.forEach(({ cell, text = LETTERS[cell] ?? '?', wide, kept, draining }, at) => {
        mark(cells[at], 'data-cell', cell);
        mark(cells[at], 'data-kept', kept);
        mark(cells[at], 'data-draining', draining);
        mark(cells[at], 'data-wide', wide);
        say(cells[at], text);
      });
    },
  };
}
