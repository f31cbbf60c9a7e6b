package build

import "time"

// young reports whether something is not yet as old as that, by the clock on the
// wall, which people and programs set. What seems to come from the future by more
// than that is as good as old: else a clock that was wrong once would have it
// last for as long as it was wrong.
func young(at time.Time, age time.Duration) bool {
	return time.Since(at).Abs() < age
}
