// Starts a stack in the folder that is given and is then killed by the test, as a supervisor that
// crashes.
import { startStack } from "../../dist/infra/embedded/supervisor.js";

const stack = await startStack({ home: process.argv[2], services: ["redis", "postgres"] });
process.send?.({ redis: stack.pid("redis"), postgres: stack.pid("postgres") });
process.on("message", () => undefined);
