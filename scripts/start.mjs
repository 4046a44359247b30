// `npm start`: makes this clone ready to run, then starts the stack and every app, and stays until
// Ctrl-C.
import { pathToFileURL } from "node:url";
import { prepare, root, told } from "./prepare.mjs";

await told(() => prepare());
await import(pathToFileURL(`${root}/dist/apps/stack/main.js`).href);
