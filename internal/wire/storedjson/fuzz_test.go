package storedjson_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

// FuzzAgainstEncodingJSON compares the package with encoding/json, for reading and for
// writing. Text that is not JSON must not make the package panic.
func FuzzAgainstEncodingJSON(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, `{"a":1,"b":[1,{"c":"\"}"}],"d":null,"e":"\\"}`, `{"a":}`, `{"a":1}}`, `{"a":"b}`, `{,}`, `{"a":[}`,
		`"<\u2028\ud83d\ude00\b"`, `[-0,1e3,1.5,123456789012345678]`, `{"a": 1}`, `"\u12"`, `{"\u0061":1,"a":2}`, "\"\xff\"", `\`, `"\`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		compareStrings(t, text)
		l := storedjson.NewLexer(text)
		read := l.Value()
		canonical := l.Done()
		fields, isObject := storedjson.Fields(text)
		items, isList := storedjson.Items(text)
		minimal := storedjson.AppendMinimal(nil, text)
		if !json.Valid(text) {
			return
		}
		compareForm(t, text, read, canonical)
		compareParts(t, text, fields, isObject, items, isList)
		if utf8.Valid(text) && !storedjson.HasSurrogates(text) {
			var want, got any
			if err := json.Unmarshal(text, &want); err != nil {
				return // a number that is too large
			}
			if err := json.Unmarshal(minimal, &got); err != nil {
				t.Fatalf("%s is written as %s: %v", text, minimal, err)
			}
			compareEncoded(t, want, got)
		}
	})
}

// compareStrings takes the text as a string to write, and as the inside of one to read.
func compareStrings(t *testing.T, text []byte) {
	t.Helper()
	want, err := json.Marshal(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := storedjson.AppendString(nil, string(text), storedjson.EscapeHTML); !bytes.Equal(got, want) {
		t.Fatalf("%q is written as %s, want %s", text, got, want)
	}
	var plain, again string
	if err := json.Unmarshal(want, &plain); err != nil {
		t.Fatal(err)
	}
	minimal := storedjson.AppendString(nil, string(text), storedjson.EscapeMinimal)
	if err := json.Unmarshal(minimal, &again); err != nil || again != plain || len(minimal) > len(want) {
		t.Fatalf("%q is written as %s: %v", text, minimal, err)
	}
	l := storedjson.NewLexer(want)
	quoted := l.QuotedText()
	if s, ok := storedjson.Unquote(quoted); !ok || s != plain || !l.Done() {
		t.Fatalf("%s is read as %q", want, s)
	}
}

// compareForm says of JSON whether it is canonical: that is, compact.
func compareForm(t *testing.T, text, read []byte, canonical bool) {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Equal(compact.Bytes(), text); canonical != want {
		t.Fatalf("%s is canonical: %v", text, canonical)
	}
	if canonical && !bytes.Equal(read, text) {
		t.Fatalf("%s is read as %s", text, read)
	}
}

func compareParts(t *testing.T, text []byte, fields storedjson.Object, isObject bool, items [][]byte, isList bool) {
	t.Helper()
	if isObject {
		var want map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%s has fields: %v", text, err)
		}
		names := map[string]bool{}
		for _, field := range fields {
			name, ok := storedjson.Unquote(field.Name)
			if names[name] = true; !ok || !bytes.Equal(want[name], field.Value) && utf8.Valid(field.Name) {
				t.Fatalf("%s is %s, want %s", name, field.Value, want[name])
			}
		}
		if len(names) != len(want) {
			t.Fatalf("%d fields, want %d", len(names), len(want))
		}
	}
	if isList {
		var want []json.RawMessage
		if err := json.Unmarshal(text, &want); err != nil || len(items) != len(want) {
			t.Fatalf("%s has %d items, want %d: %v", text, len(items), len(want), err)
		}
		for i := range items {
			if !bytes.Equal(items[i], want[i]) {
				t.Fatalf("item %d is %s, want %s", i, items[i], want[i])
			}
		}
	}
}

func compareEncoded(t *testing.T, want, got any) {
	t.Helper()
	w, wantErr := json.Marshal(want)
	g, gotErr := json.Marshal(got)
	if wantErr != nil || gotErr != nil || !bytes.Equal(w, g) {
		t.Fatalf("%s, want %s; %v, %v", g, w, gotErr, wantErr)
	}
}
