// The part of proxy-addr that we use; the package brings no types.
declare module "proxy-addr" {
  import type { IncomingMessage } from "node:http";

  type Trust = (address: string, index: number) => boolean;
  /** The address of the sender, behind every trusted proxy. */
  const proxyaddr: {
    (request: IncomingMessage, trust: Trust): string;
    /** Throws TypeError for a text that is no address, range or name of ranges. */
    readonly compile: (trusted: readonly string[]) => Trust;
  };
  export default proxyaddr;
}
