// The id of an order in lists and paths: opaque, and the same whenever it is made.

const REF = /^ord_([1-9]\d{0,9})_([A-Za-z0-9_-]{1,700})$/;

/** `ord_` with the client and the shop's own id, which may hold any character. */
export const orderRef = (clientId: number, orderId: string): string =>
  `ord_${clientId}_${Buffer.from(orderId, "utf8").toString("base64url")}`;

/** What `orderRef` was made of; undefined for any other text, which is a shop's own id. */
export const orderOfRef = (ref: string): { readonly client_id: number; readonly order_id: string } | undefined => {
  const [, client, encoded] = REF.exec(ref) ?? [];
  if (client === undefined || encoded === undefined) return undefined;
  const order_id = Buffer.from(encoded, "base64url").toString("utf8");
  return orderRef(Number(client), order_id) === ref ? { client_id: Number(client), order_id } : undefined;
};
