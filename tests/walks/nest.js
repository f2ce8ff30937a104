// Touches new pages in known calls, again and again.
"use strict";

function touch(array) {
  for (let i = 0; i < array.length; i += 512) array[i] = 1;
}

function inner() {
  touch(new Float64Array(1 << 20));
}

function outer() {
  inner();
}

setInterval(outer, 2);
