package redact

import "google.golang.org/protobuf/reflect/protoreflect"

// Strings applies change to every string in m, including map keys. Unknown
// fields are dropped, since they cannot be checked.
func Strings(m protoreflect.Message, change func(string) string) {
	m.SetUnknown(nil)
	text := func(v protoreflect.Value) protoreflect.Value { return protoreflect.ValueOfString(change(v.String())) }
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap():
			stringsOfMap(m, field, value.Map(), change)
		case field.IsList():
			for list, i := value.List(), 0; i < list.Len(); i++ {
				switch field.Kind() {
				case protoreflect.StringKind:
					list.Set(i, text(list.Get(i)))
				case protoreflect.MessageKind:
					Strings(list.Get(i).Message(), change)
				}
			}
		case field.Kind() == protoreflect.StringKind:
			m.Set(field, text(value))
		case field.Kind() == protoreflect.MessageKind:
			Strings(value.Message(), change)
		}
		return true
	})
}

func stringsOfMap(m protoreflect.Message, field protoreflect.FieldDescriptor, old protoreflect.Map, change func(string) string) {
	fresh := m.NewField(field)
	old.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		if s, ok := key.Interface().(string); ok {
			key = protoreflect.ValueOfString(change(s)).MapKey()
		}
		switch field.MapValue().Kind() {
		case protoreflect.StringKind:
			value = protoreflect.ValueOfString(change(value.String()))
		case protoreflect.MessageKind:
			Strings(value.Message(), change)
		}
		fresh.Map().Set(key, value)
		return true
	})
	m.Set(field, fresh)
}
