package machinerpc

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"aloft/internal/wire/agentv1"
)

// The largest replies that an honest machine sends can be decoded.
func TestHonestReplies(t *testing.T) {
	numbers := &structpb.ListValue{}
	for i := range 180_000 {
		numbers.Values = append(numbers.Values, structpb.NewNumberValue(float64(i)))
	}
	folder := &agentv1.ListDirectoryResponse{}
	for range 20_000 {
		folder.Entries = append(folder.Entries, &agentv1.DirectoryEntry{Name: "a"})
	}
	for _, m := range []proto.Message{numbers, folder} {
		wire, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got := m.ProtoReflect().New().Interface()
		if err := (sparing{}).Unmarshal(wire, got); err != nil || !proto.Equal(m, got) {
			t.Errorf("%T: %v", m, err)
		}
	}
}

// FuzzParts has a machine send arbitrary bytes. A message that countParts
// accepts must decode to few enough parts. A message that countParts rejects
// must be either large or invalid for protobuf, too.
func FuzzParts(f *testing.F) {
	for _, m := range []proto.Message{
		structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNullValue(), structpb.NewStructValue(&structpb.Struct{})}}),
		&structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("b")}},
	} {
		wire, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var v structpb.Value
		left := maxParts
		counted := countParts(wire, v.ProtoReflect().Descriptor(), maxNested, &left)
		decoded := proto.Unmarshal(wire, &v)
		if counted == nil && decoded == nil && left == maxParts && (v.GetListValue() != nil || v.GetStructValue() != nil) {
			t.Error("a message in the message was not counted")
		}
		if counted != nil && decoded == nil && !errors.Is(counted, errParts) {
			t.Errorf("protobuf decodes what countParts does not parse: %v", counted)
		}
	})
}
