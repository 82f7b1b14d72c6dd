// A Restate service whose handlers park on an awakeable until somebody decides.
//
//   node restate_service.mjs PORT
//
// Prints "ready", and then a line of JSON whenever a handler has asked. A handler answers with the decision, and with
// when it heard it, by the monotonic clock of this machine, in nanoseconds.

import { createServer } from "node:http2";
import * as restate from "@restatedev/restate-sdk";

async function decided(context) {
  const { id, promise } = context.awakeable();
  const asked = { awakeable: id, invocation: context.request().id };
  await context.run("ask", () => console.log(JSON.stringify(asked)));
  const decision = await promise;
  return { decision, heard_ns: String(process.hrtime.bigint()) };
}

const decisions = restate.service({
  name: "decisions",
  handlers: {
    connected: decided,
    suspended: restate.createServiceHandler({ inactivityTimeout: 0 }, decided),
  },
});
const endpoint = restate.createEndpointHandler({
  services: [decisions],
  logger: (_, ...message) => console.error(...message), // standard output is for who has asked
});
createServer(endpoint).listen(Number(process.argv[2]), "127.0.0.1", () => console.log("ready"));
