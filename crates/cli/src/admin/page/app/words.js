// Figures and times as people read them.

const whole = new Intl.NumberFormat('en');

export function count(number) {
  if (number >= 1e12) return `${(number / 1e12).toFixed(2)} T`;
  if (number >= 1e9) return `${(number / 1e9).toFixed(2)} G`;
  if (number >= 1e7) return `${(number / 1e6).toFixed(1)} M`;
  return whole.format(Math.round(number));
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function rate(perSecond) {
  if (perSecond >= 10 || perSecond === 0) return `${count(perSecond)}/s`;
  return `${perSecond.toFixed(1)}/s`;
}

// Something that takes about so long: as precise as it can matter.
export function span(ms) {
  if (ms === 0) return '0 ms';
  if (ms < 0.95) return `${ms.toFixed(2)} ms`;
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  return long(ms, ms < 9950 ? 1 : 0);
}

const still = matchMedia('(prefers-reduced-motion: reduce)');

// Something that runs: with tenths when little is left, unless people want things to keep still.
export function running(ms) {
  return long(ms, ms < 9950 && !still.matches ? 1 : 0);
}

// Likewise, without tenths.
export const seconds = (ms) => long(Math.floor(ms / 1000) * 1000, 0);

function long(ms, digits) {
  if (ms < 9950) return `${(Math.max(ms, 0) / 1000).toFixed(digits)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 100) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min${parts(seconds % 60, 's')}`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h${parts(Math.floor((seconds % 3600) / 60), 'min')}`;
  return `${Math.floor(seconds / 86400)} d`;
}

const parts = (number, unit) => (number > 0 ? ` ${String(number).padStart(2, '0')} ${unit}` : '');

export function timeOfDay(ms) {
  const at = new Date(ms);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

export const words = (name) => String(name).replaceAll('_', ' ');

export function address(backend) {
  const host = backend.address.includes(':') ? `[${backend.address}]` : backend.address;
  return `${host}:${backend.port}`;
}

// "3 busy, 5 idle".
export function tally(counts) {
  return Array.from(counts).filter(([, number]) => number > 0).map(([name, number]) => `${count(number)} ${words(name)}`).join(', ');
}

export const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);

// JSON has null, or nothing at all, where nobody knows.
export const known = (value) => value !== null && value !== undefined;
