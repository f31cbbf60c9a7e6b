package redact

import (
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestEveryStringOfAMessage checks that maps, lists and nested messages are
// included.
func TestEveryStringOfAMessage(t *testing.T) {
	const key = "sk-the-key-of-keys"
	of := func(v map[string]any) *structpb.Struct {
		m, err := structpb.NewStruct(v)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := of(map[string]any{"A": "x", "B": key, key: "y", "list": []any{key, "z", map[string]any{key: true}}, "n": 1})
	m.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), key))
	Strings(m.ProtoReflect(), New(map[string]string{"k": key}).String)
	want := of(map[string]any{"A": "x", "B": Marker, Marker: "y", "list": []any{Marker, "z", map[string]any{Marker: true}}, "n": 1})
	if !proto.Equal(m, want) {
		t.Errorf("got %v, want %v", m, want)
	}
}
