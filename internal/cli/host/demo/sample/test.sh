#!/bin/sh
# Tests of slug.sh: one line for each case, and one for the count.
passed=0 failed=0

check() {
	got=$(sh ./slug.sh "$1")
	if [ "$got" = "$2" ]; then
		passed=$((passed + 1))
		echo "ok   $1"
	else
		failed=$((failed + 1))
		echo "FAIL $1: got \"$got\", want \"$2\""
	fi
}

check "Hello" "hello"
check "Hello World" "hello-world"
check "Rock & Roll" "rock-roll"
check "  Wide  Spaces  " "wide-spaces"
check "Ends with a dot." "ends-with-a-dot"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
