package pod_test

import (
	"slices"
	"testing"

	"aloft/internal/control/pod"
)

func TestTailKeepsTheEnd(t *testing.T) {
	out := &pod.Tail{Limit: 10}
	for range 1000 {
		if _, err := out.Write([]byte("0123456")); err != nil {
			t.Fatal(err)
		}
	}
	if want := "… 6990 earlier bytes omitted\n4560123456"; out.Text() != want {
		t.Errorf("it is %q; want %q", out.Text(), want)
	}
	var news []string
	out = &pod.Tail{Limit: 100, News: func(s string) { news = append(news, s) }}
	for _, s := range []string{"one\ntwo\nthr", "ee\n"} {
		if _, err := out.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(news, []string{"two"}) || out.Text() != "one\ntwo\nthree\n" {
		t.Errorf("news %q, text %q", news, out.Text())
	}
}
