import assert from "node:assert/strict";
import test from "node:test";
import { Board, titled, total, untitled } from "../../flownb/notebook/static/attention.mjs";

/** A page whose title others write too. */
function page(title) {
  const watchers = new Set();
  const made = {
    title,
    watched: 0,
    /** The application writes. */
    write(text) {
      made.title = text;
      for (const told of [...watchers]) told();
    },
    watch(told) {
      watchers.add(told);
      made.watched += 1;
      return () => watchers.delete(told) && (made.watched -= 1);
    },
  };
  return made;
}

const asks = (run, ...numbers) => ({ run, ids: numbers.map((n) => `${run}:${n}`), needs: numbers.length });

test("a title says how many questions need somebody", () => {
  assert.equal(titled("a.ipynb", 2), "● 2 need you · a.ipynb");
  assert.equal(titled("a.ipynb", 1), "● 1 needs you · a.ipynb");
  assert.equal(titled("a.ipynb", 1204), "● 1,204 need you · a.ipynb");
  assert.equal(titled("a.ipynb", 0), "a.ipynb");
  for (const n of [1, 2, 1204]) assert.equal(untitled(titled("a · b", n)), "a · b");
});

test("one question counts once, however many panels show it; those that are not listed count too", () => {
  assert.equal(total([]), 0);
  assert.equal(total([asks("a", 1, 2), asks("b", 1)]), 3);
  assert.equal(total([asks("a", 1, 2), asks("a", 1, 2)]), 2);
  const child = { run: "a/1", ids: ["a/1:1"], needs: 1 };
  assert.equal(total([{ run: "a", ids: ["a:1", "a/1:1"], needs: 2 }, child]), 2);
  assert.equal(total([{ ...asks("a", 1, 2), needs: 60 }, { ...asks("a", 1, 2), needs: 60 }]), 60);
});

test("several panels add up, and the title is put back exactly", () => {
  const tab = page("two  spaces - JupyterLab");
  const board = new Board(tab, tab.watch);
  board.set("one", asks("a", 1, 2));
  board.set("two", asks("b", 1));
  assert.equal(tab.title, "● 3 need you · two  spaces - JupyterLab");
  board.set("one", asks("a", 2));
  assert.equal(tab.title, "● 2 need you · two  spaces - JupyterLab");
  board.set("two", null);
  board.set("one", asks("a"));
  assert.deepEqual([tab.title, tab.watched], ["two  spaces - JupyterLab", 0]);
});

test("what the application writes meanwhile is kept, with the count before it", () => {
  const tab = page("one.ipynb");
  const board = new Board(tab, tab.watch);
  board.set("v", asks("a", 1));
  tab.write("two.ipynb");
  assert.equal(tab.title, "● 1 needs you · two.ipynb");
  tab.write("* ● 1 needs you · two.ipynb"); // it wrote on what it read
  assert.equal(tab.title, "● 1 needs you · * two.ipynb");
  board.set("v", null);
  assert.equal(tab.title, "* two.ipynb");
  tab.write("three.ipynb");
  assert.equal(tab.title, "three.ipynb");
  board.set("v", asks("a", 5));
  assert.equal(tab.title, "● 1 needs you · three.ipynb");
});

test("a panel that goes without a word of its own takes nothing of the others along", () => {
  const tab = page("n");
  const board = new Board(tab, tab.watch);
  board.set("never", null);
  assert.deepEqual([tab.title, tab.watched], ["n", 0]);
  board.set("one", asks("a", 1));
  board.set("never", null);
  assert.equal(tab.title, "● 1 needs you · n");
});
