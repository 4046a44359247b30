// An app that is ready after the milliseconds of its argument, or never.
import { createServer } from "node:http";

const [after] = process.argv.slice(2);
const server = createServer((_, response) => response.end("ready"));
const listen = () => server.listen(Number(process.env.OPS_PORT), "127.0.0.1");
if (after === "never") setInterval(() => undefined, 1_000);
else setTimeout(listen, Number(after));
process.on("SIGTERM", () => process.exit(0));
