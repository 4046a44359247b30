// Reads one file from a jar: a Java runtime has no unpacker, and an entry of a zip archive is a few
// numbers and one inflate.
import { readFileSync } from "node:fs";
import { inflateRawSync } from "node:zlib";

const END_OF_DIRECTORY = 0x06054b50;
const STORED = 0;

/**
 * The content of `name` in a zip archive. @throws Error when the archive or the entry is missing.
 */
export function readZipEntry(file: string, name: string): Buffer {
  const zip = readFileSync(file);
  // The record at the end is 22 bytes long if the archive has no comment, and says where the
  // directory begins.
  let end = zip.length - 22;
  while (end >= 0 && zip.readUInt32LE(end) !== END_OF_DIRECTORY) end -= 1;
  if (end < 0) throw new Error(`${file} is no complete zip archive; remove it and start again to fetch it once more.`);
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left -= 1) {
    const nameLength = zip.readUInt16LE(at + 28);
    const entry = zip.toString("utf8", at + 46, at + 46 + nameLength);
    if (entry === name)
      return contentAt(zip, zip.readUInt32LE(at + 42), zip.readUInt32LE(at + 20), zip.readUInt16LE(at + 10));
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
  }
  throw new Error(`${file} holds no ${name}.`);
}

function contentAt(zip: Buffer, header: number, length: number, method: number): Buffer {
  const start = header + 30 + zip.readUInt16LE(header + 26) + zip.readUInt16LE(header + 28);
  const packed = zip.subarray(start, start + length);
  return method === STORED ? packed : inflateRawSync(packed);
}
