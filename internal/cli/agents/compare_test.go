package agents

import "testing"

func TestDiffStat(t *testing.T) {
	const diff = `diff --git a/x b/x
index 1..2 100644
--- a/x
+++ b/x
@@ -1,2 +1,3 @@ func a() {
 one
-two
+++ two
+three
--- four
diff --git a/pic.png b/pic.png
Binary files a/pic.png and b/pic.png differ
diff --git a/y b/y
new file mode 100644
--- /dev/null
+++ b/y
@@ -0,0 +1 @@
+y
`
	if files, added, removed := diffStat(diff); files != 3 || added != 3 || removed != 2 {
		t.Errorf("%d files, %d added, %d removed; want 3, 3, 2", files, added, removed)
	}
	if files, added, removed := diffStat(""); files+added+removed != 0 {
		t.Error("nothing is something")
	}
}
