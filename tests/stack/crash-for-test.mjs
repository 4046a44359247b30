// Starts a stack in the given folder; the test then kills it, as if the supervisor had crashed.
import { startStack } from "../../dist/infra/embedded/supervisor.js";

const stack = await startStack({ home: process.argv[2], services: ["redis", "postgres"] });
process.send?.({ redis: stack.pid("redis"), postgres: stack.pid("postgres") });
process.on("message", () => undefined);
