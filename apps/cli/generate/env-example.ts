// Writes .env.example from the one list of variables. With --check it only says whether the file is
// current.
import { readFileSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { variables } from "../../../infra/runtime/environment.ts";

const file = ".env.example";
const entries = Object.entries(variables).map(([name, { schema, effect, needed }]) => {
  // The default as people write it: a parsed one may be a list or an object.
  const { default: shown = "" } = z.toJSONSchema(schema, { io: "input" });
  return `# ${effect}${needed === "needed" ? " Required in production." : ""}\n#${name}=${shown}\n`;
});
const text =
  "# Every variable that Tributary reads. npm start needs none of them; an address given here wins " +
  "over the embedded server.\n# A credential may lie in a file. TRIBUTARY_SECRET_FILE, KAFKA_BROKERS_FILE and the " +
  "*_URL_FILE of the registry, the stores and the mail\n# server name one with the setting; REDIS_, POSTGRES_, " +
  "POSTGRES_ADMIN_, CLICKHOUSE_, OBJECT_STORE_ and SMTP_PASSWORD_FILE one\n# with the password of that address, as " +
  "it is.\n# Written by: node scripts/run.mjs apps/cli/generate/env-example.js\n\n" +
  entries.join("\n");
if (!process.argv.includes("--check")) writeFileSync(file, text);
else if (readFileSync(file, "utf8") !== text) {
  process.stderr.write(
    `${file} does not list the variables of infra/runtime/environment.ts; run: node scripts/run.mjs ` +
      "apps/cli/generate/env-example.js\n",
  );
  process.exitCode = 1;
}
