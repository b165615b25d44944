// Unpacks the browser of @sparticuz/chromium into the folder that is the first argument: the program, the libraries
// that it is linked with, and a font. `make browser` calls it.
import { spawnSync } from "node:child_process";
import { chmodSync, createReadStream, createWriteStream, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";

const folder = resolve(process.argv[2]);
const packed = join(folder, "node_modules", "@sparticuz", "chromium", "bin");

const unpack = (name, target) =>
  pipeline(createReadStream(join(packed, `${name}.br`)), createBrotliDecompress(), createWriteStream(target));

const program = join(folder, "chromium");
await unpack("chromium", program);
chmodSync(program, 0o755);
for (const name of ["al2023.tar", "swiftshader.tar", "fonts.tar"]) {
  const archive = join(folder, name);
  await unpack(name, archive);
  if (spawnSync("tar", ["-xf", archive, "-C", folder], { stdio: "inherit" }).status !== 0) process.exit(1);
  rmSync(archive);
}
mkdirSync(join(folder, "cache"), { recursive: true });
writeFileSync(
  join(folder, "fonts.conf"),
  `<fontconfig><dir>${join(folder, "fonts")}</dir><cachedir>${join(folder, "cache")}</cachedir></fontconfig>\n`,
);
rmSync(join(folder, "node_modules"), { recursive: true });
