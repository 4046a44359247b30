// `npm start`: makes this clone ready to run, then starts the stack and every app, and stays until
// Ctrl-C.
import { pathToFileURL } from "node:url";
import { orExplain, prepare, root } from "./prepare.mjs";

await orExplain(() => prepare());
await import(pathToFileURL(`${root}/dist/tools/stack/main.js`).href);
