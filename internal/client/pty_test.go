package client

import "testing"

func FuzzPTYEvent(f *testing.F) {
	f.Add(false, []byte(`{"type":"exit","code":3,"signal":"SIGINT"}`))
	f.Add(false, []byte(`{"type":"","channel":2,"data":"eA=="}`))
	f.Add(true, []byte("\x01hello"))
	f.Add(true, []byte{})
	f.Fuzz(func(t *testing.T, binary bool, b []byte) {
		e, err := readPTYEvent(binary, b)
		if err == nil && !binary && (e.Data != nil || e.Channel != 0) {
			t.Errorf("words became output: %+v", e)
		}
		if binary && e.Type != "" {
			t.Errorf("output became words: %+v", e)
		}
	})
}
