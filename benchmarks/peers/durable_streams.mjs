// The reference server of Durable Streams, on loopback.
//
//   node durable_streams.mjs memory|file PORT FOLDER
//
// Prints "ready" when it takes requests. FOLDER is for the file store.

import { DurableStreamTestServer } from "@durable-streams/server";

const [store, port, folder] = process.argv.slice(2);
const server = new DurableStreamTestServer({
  host: "127.0.0.1",
  port: Number(port),
  dataDir: store === "file" ? folder : undefined,
});
await server.start();
console.log("ready");

process.on("SIGTERM", () => process.exit());
