// Reads a kang address with kang's own client library, and prints what that makes of it as one line of JSON.
//
// node kang.js MODULES HOST:PORT

const path = require('path');
const [modules, address] = process.argv.slice(2);
const kang = require(path.join(modules, 'kang'));

kang.knFetchAll({ sources: [kang.knMakeSource(address)] }, (error, snapshot) => {
  if (error) {
    console.error(error.message);
    process.exit(1);
  }
  const objects = {};
  for (const type of snapshot.types()) {
    objects[type] = Object.fromEntries(snapshot.list(type).map((id) => [id, snapshot.lookupFirst(type, id)]));
  }
  console.log(JSON.stringify(objects));
  process.exit(0);
});
