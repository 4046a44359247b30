// apps/tls.ts - the certificate files of an app's configuration, as its servers take them.
import type { Log } from "../stream/log.ts";
import type { TlsFiles } from "../stream/tls.ts";

/** Both files or none: apps/environment.ts refuses one without the other. */
export const tlsOf = (
  {
    TLS_CERT_FILE: certFile,
    TLS_KEY_FILE: keyFile,
  }: { readonly TLS_CERT_FILE?: string | undefined; readonly TLS_KEY_FILE?: string | undefined },
  log: Log,
): { readonly tls?: TlsFiles } => (certFile === undefined || keyFile === undefined ? {} : { tls: { certFile, keyFile, log } });
