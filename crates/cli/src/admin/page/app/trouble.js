// What is wrong, and how much: 0 nothing, 1 worth a look, 2 something does not work, 3 nothing works. And what a filter finds.

import { address, known, words } from './words.js';

export function backendTrouble(backend) {
  switch (backend.state) {
    case 'dead':
    case 'unhealthy':
      return 2;
    case 'ejected':
      return 1;
    default:
      return backend.failing || backend.stalled || backend.unreliable || known(backend.held_off_ms) || backend.reason ? 1 : 0;
  }
}

export function objectTrouble(object) {
  if (object.state === 'failed' || object.state === 'refused') return 3;
  switch (object.type) {
    case 'pool':
    case 'set':
      if (object.dead > 0) return 2;
      return object.waiting > 0 || object.cause || object.backends.some((backend) => backendTrouble(backend) > 0) ? 1 : 0;
    case 'resolver': {
      const failed = object.dns?.questions.some((question) => question.state === 'failed');
      if (object.error || failed) return object.backends.length > 0 ? 1 : 2;
      return known(object.stale_ms) ? 1 : 0;
    }
    case 'feed':
      if (object.connections.some((connection) => connection.state === 'waiting')) return 2;
      return object.cause ? 1 : 0;
    case 'gateway':
      return object.worst.some((client) => client.waiting >= 1000) ? 1 : 0;
    default:
      return 0;
  }
}

export function serviceTrouble(service, objects) {
  const worst = Math.max(0, ...objects.map(objectTrouble));
  return Math.max(worst, { unavailable: 3, degraded: 2, saturated: 1 }[service.status] ?? (service.trouble ? 1 : 0));
}

export const lampOf = (trouble) => (trouble >= 2 ? 'bad' : trouble === 1 ? 'warn' : 'ok');

// What a backend, or the whole of an object, is found by.
export function backendText(backend) {
  const doing = [...(backend.slots ?? [])].map((slot) => slot.phase);
  for (const connection of backend.connections ?? []) doing.push(connection.idle, connection.leases > 0 ? 'busy' : 'idle');
  return fold([backend.name, address(backend), backend.state, backend.reason, ...new Set(doing)]);
}

export function objectText(object) {
  const told = [object.name, object.type, object.state, object.cause, object.error, object.listen];
  if (objectTrouble(object) > 0) told.push('trouble');
  if (object.waiting > 0) told.push('waiting');
  for (const connection of object.type === 'feed' ? object.connections : []) told.push(connection.state);
  for (const question of object.dns?.questions ?? []) told.push(question.name, question.kind, question.state);
  for (const client of object.worst ?? []) told.push(client.address, client.user);
  for (const node of object.nodes ?? []) told.push(node);
  if (object.type === 'resolver') for (const backend of object.backends) told.push(backend.name, address(backend));
  return fold(told);
}

export const fold = (texts) => texts.filter(Boolean).map(words).join('\n').toLowerCase();

export const matches = (backend, sought) => sought.length === 0 || has(backendText(backend), sought);

export const has = (text, sought) => sought.every((word) => text.includes(word));
