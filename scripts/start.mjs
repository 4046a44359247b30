// `npm start`: prepares this clone, starts the stack and every app, and runs until Ctrl-C.
import { pathToFileURL } from "node:url";
import { orExplain, prepare, root } from "./prepare.mjs";

await orExplain(() => prepare());
await import(pathToFileURL(`${root}/dist/tools/stack/main.js`).href);
