// A certificate authority for tests, and certificates that it signs. The DER is written here, so
// that no openssl is needed.
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

export interface Certificate {
  /** The certificate and its private key (PKCS 8) as PEM. */
  readonly cert: string;
  readonly key: string;
}
export interface Authority extends Certificate {
  /** `names` are host names or IPv4 addresses. */
  readonly issue: (...names: readonly string[]) => Certificate;
}

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts);
  const long = body.length < 128 ? [] : body.length < 256 ? [0x81] : [0x82, body.length >> 8];
  return Buffer.concat([Buffer.from([tag, ...long, body.length & 0xff]), body]);
};
const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts);
const oid = (...bytes: readonly number[]) => der(0x06, Buffer.from(bytes));
const time = (ms: number) =>
  der(0x17, Buffer.from(`${new Date(ms).toISOString().replace(/[-:T]/g, "").slice(2, 14)}Z`));
const named = (name: string) => sequence(der(0x31, sequence(oid(0x55, 4, 3), der(0x0c, Buffer.from(name)))));
const extension = (id: Uint8Array, value: Uint8Array) => sequence(id, der(0x04, value));
const ecdsaWithSha256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2));
const pem = (label: string, bytes: Buffer) =>
  `-----BEGIN ${label}-----\n${bytes.toString("base64").replace(/.{64}(?=.)/g, "$&\n")}\n-----END ${label}-----\n`;

const isAddress = (name: string) => /^[\d.]+$/.test(name);
const alternative = (name: string) =>
  isAddress(name) ? der(0x87, Buffer.from(name.split(".").map(Number))) : der(0x82, Buffer.from(name));

const DAY_MS = 86_400_000;

const certificate = (
  subject: string,
  subjectKey: KeyObject,
  issuer: string,
  issuerKey: KeyObject,
  extensions: readonly Uint8Array[],
): Certificate => {
  const serial = Buffer.concat([Buffer.from([0x01]), randomBytes(8)]);
  const toSign = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, serial),
    ecdsaWithSha256,
    named(issuer),
    sequence(time(Date.now() - DAY_MS), time(Date.now() + DAY_MS)),
    named(subject),
    createPublicKey(subjectKey).export({ type: "spki", format: "der" }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = der(0x03, Buffer.from([0]), sign("sha256", toSign, issuerKey));
  return {
    cert: pem("CERTIFICATE", sequence(toSign, ecdsaWithSha256, signature)),
    key: subjectKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
};

const newKey = () => generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;

/** An authority that is valid from yesterday until tomorrow. */
export const newAuthority = (name = "Tributary test authority"): Authority => {
  const key = newKey();
  const isAuthority = extension(oid(0x55, 0x1d, 0x13), sequence(der(0x01, Buffer.from([0xff]))));
  return {
    ...certificate(name, key, name, key, [isAuthority]),
    issue: (...names) => {
      const also = extension(oid(0x55, 0x1d, 0x11), sequence(...names.map(alternative)));
      return certificate(names[0]!, newKey(), name, key, [also]);
    },
  };
};
