// Opens the object storage that OBJECT_STORE_URL names.
import { fileURLToPath } from "node:url";
import { fsObjects } from "./fs.ts";
import type { Objects } from "./objects.ts";
import { s3Objects } from "./s3.ts";

/**
 * `file:///folder` or `s3://key:secret@host:port/bucket?...` (infra/objects/s3.ts). Connects to
 * nothing yet. Throws on any other scheme.
 */
export const openObjects = (url: string): Objects => {
  if (url.startsWith("file:")) return fsObjects(fileURLToPath(url));
  if (url.startsWith("s3:")) return s3Objects(url);
  throw new Error(
    `OBJECT_STORE_URL: ${url.split(":")[0]}: is no object storage that is known here; use file:///folder or s3://...`,
  );
};
