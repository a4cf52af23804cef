// How long claims waited lately, as a line: a value a second, the latest at the right.

import { el, mark, say, svg } from './dom.js';
import { known, rate, span } from './words.js';

const SECONDS = 120;
const HEIGHT = 28;
// Less than that is nothing, and is not blown up.
const LEAST_MS = 2;

export function makeSpark(what) {
  const area = svg('path', { class: 'area' });
  const line = svg('path', { class: 'line' });
  const picture = svg('svg', { viewBox: `0 0 ${SECONDS} ${HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false' }, area, line);
  const figure = el('span', { class: 'spark-now' });
  const peak = el('span', { class: 'quiet peak' });
  const node = el('div', { class: 'spark', role: 'group', 'aria-label': `${what} wait, last two minutes` }, el('span', { class: 'quiet' }, `${what} wait`), picture, figure, peak);
  return {
    node,
    update(history) {
      const waits = (history?.wait_ms ?? []).slice(-SECONDS);
      const told = waits.filter(known);
      const most = Math.max(LEAST_MS, ...told);
      const runs = runsOf(waits, SECONDS - waits.length + 1, (value) => (HEIGHT - 2 - (value / most) * (HEIGHT - 5)).toFixed(1));
      mark(line, 'd', runs.map(({ points }) => `M${points.join('L')}`).join(''));
      mark(area, 'd', runs.map(({ from, to, points }) => `M${from} ${HEIGHT}L${points.join('L')}L${to} ${HEIGHT}Z`).join(''));
      const now = waits.at(-1);
      say(figure, now === undefined ? 'no figures yet' : known(now) ? span(now) : 'nobody served');
      say(peak, waits.length > 1 && told.length > 0 ? `peak ${span(Math.max(...told))}` : '');
    },
  };
}

// What is between gaps: seconds in which there was nothing to tell.
function runsOf(values, start, heightOf) {
  const runs = [];
  values.forEach((value, index) => {
    if (!known(value)) return;
    const x = start + index;
    const last = runs.at(-1);
    if (last?.to === x - 1) {
      last.to = x;
      last.points.push(`${x} ${heightOf(value)}`);
    } else {
      // Half a second before, so that one alone can be seen.
      runs.push({ from: x - 0.5, to: x, points: [`${x - 0.5} ${heightOf(value)}`, `${x} ${heightOf(value)}`] });
    }
  });
  return runs;
}

export const rateOf = (history) => (known(history?.served?.at(-1)) ? rate(history.served.at(-1)) : '');
