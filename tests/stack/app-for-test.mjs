// A small app in the form that the supervisor expects: ready on its side port, exits on SIGTERM,
// and dies or shows its environment on request.
import { createServer } from "node:http";

createServer((request, response) => {
  if (request.url === "/die") process.exit(7);
  response.end(JSON.stringify({ env: process.env, args: process.argv.slice(2) }));
}).listen(Number(process.env.OPS_PORT), "127.0.0.1");
process.on("SIGTERM", () => process.exit(0));
