#!/usr/bin/env node
// The `tributary` command line: `npx tributary <noun> <verb>`. Compiles quietly when a source has
// changed.
import { realpathSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { orExplain, prepare, root } from "./prepare.mjs";

await orExplain(() => prepare({ quiet: true, withStack: false, withTests: false }));
process.argv[1] = realpathSync(`${root}/dist/apps/cli/main.js`);
await import(pathToFileURL(process.argv[1]).href);
