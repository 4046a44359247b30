// The certificate files of an app's configuration, as its servers take them.
import type { Log } from "./log.ts";
import type { TlsFiles } from "./tls.ts";

/** Both files or none: infra/runtime/environment.ts refuses one without the other. */
export const tlsOf = (
  {
    TLS_CERT_FILE: certFile,
    TLS_KEY_FILE: keyFile,
  }: { readonly TLS_CERT_FILE?: string | undefined; readonly TLS_KEY_FILE?: string | undefined },
  log: Log,
): { readonly tls?: TlsFiles } =>
  certFile === undefined || keyFile === undefined ? {} : { tls: { certFile, keyFile, log } };
