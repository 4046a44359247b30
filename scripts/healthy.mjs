// Exits with 0 if the app of this container answers /readyz on its side port. The certificate is
// not checked, because it names a public host and not the loopback address.
import { get as getPlain } from "node:http";
import { get as getSecure } from "node:https";

const [, given = "127.0.0.1", port] = /^(?:(.+):)?(\d+)$/.exec(process.env.OPS_PORT || "9080") ?? [];
const host = ["0.0.0.0", "[::]"].includes(given) ? "127.0.0.1" : given;
const isSecure = Boolean(process.env.TLS_CERT_FILE);
const get = isSecure ? getSecure : getPlain;
get(
  `${isSecure ? "https" : "http"}://${host}:${port}/readyz`,
  { rejectUnauthorized: false, timeout: 2_000 },
  (answer) => {
    process.exit(answer.statusCode === 200 ? 0 : 1);
  },
)
  .on("timeout", () => process.exit(1))
  .on("error", () => process.exit(1));
