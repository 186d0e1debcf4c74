import assert from "node:assert/strict";
import test from "node:test";
import { added } from "../../flownb/notebook/static/chips.mjs";

test("a chip is what is typed without the blanks round it, and blanks are none", () => {
  const texts = ["a"];
  assert.deepEqual(added(texts, " b c "), ["a", "b c"]);
  assert.equal(added(texts, "  "), texts);
  assert.deepEqual(added(texts, "a"), ["a", "a"], "what may come once only is known to the answer's type");
});
