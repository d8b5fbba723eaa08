package storedjson_test

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/wire/storedjson"
)

func TestFields(t *testing.T) {
	const text = `{"a":1,"b":[1,{"c":"\"}"}],"d":null,"e":"\\","f":{}}`
	fields, ok := storedjson.Fields([]byte(text))
	if !ok || len(fields) != 5 {
		t.Fatalf("%d fields, %v", len(fields), ok)
	}
	for name, want := range map[string]string{"a": "1", "b": `[1,{"c":"\"}"}]`, "d": "", "e": `"\\"`, "f": "{}", "g": ""} {
		if got := fields.Get(name); string(got) != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if fields.Get("d") != nil {
		t.Error("null is a value")
	}
	items, ok := storedjson.Items(fields.Get("b"))
	if !ok || len(items) != 2 || string(items[1]) != `{"c":"\"}"}` {
		t.Errorf("items %q, %v", items, ok)
	}
	for n := range text {
		if _, ok := storedjson.Fields([]byte(text[:n])); ok {
			t.Errorf("the first %d bytes are an object", n)
		}
	}
}

// TestNotCanonical has well-formed JSON that Kubernetes would not write, and broken JSON.
func TestNotCanonical(t *testing.T) {
	for _, text := range []string{
		`{"a": 1}`, `{"a":1 }`, ` {}`, "{}\n", `{"a":[1, 2]}`, "{\"a\":\t1}", `{"\u0061":1}`, `{"a":1,"a":2}`,
		`{"a":}`, `{"a":1}}`, `{"a":"b}`, `{,}`, `{"a":[}`, `{"a"1}`, `{a:1}`, `{"a":1,}`, `[]`, ``, `{`, `"`, `{"a":"\"}`,
	} {
		if fields, ok := storedjson.Fields([]byte(text)); ok {
			t.Errorf("%s has the fields %q", text, fields)
		}
	}
	for _, text := range []string{`[1, 2]`, `[1,]`, `[`, `[1`, `{}`, ``, `[]]`, `[,1]`} {
		if items, ok := storedjson.Items([]byte(text)); ok {
			t.Errorf("%s has the items %q", text, items)
		}
	}
}

// TestValueEnds sees that Value steps over exactly one value, whatever follows.
func TestValueEnds(t *testing.T) {
	for _, value := range []string{`1`, `-1.5e3`, `true`, `null`, `""`, `"a\"b"`, `"\\"`, `{}`, `[]`, `[[],{"a":"]"}]`} {
		for _, after := range []string{"", ",", "}", "]", ",1"} {
			l := storedjson.NewLexer([]byte(value + after))
			if got := l.Value(); string(got) != value || l.Refused() || l.Offset() != len(value) {
				t.Errorf("%s before %q: %q, refused %v", value, after, got, l.Refused())
			}
		}
	}
}

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		text           string
		whole, decimal bool
	}{
		{"0", true, true}, {"-0", false, false}, {"7", true, true}, {"-12", true, true}, {"007", false, false},
		{"123456789012345678", true, false}, {"1234567890123456789", false, false},
		{"1.5", false, true}, {"1.50", false, false}, {"1e3", false, false}, {"1e+21", false, true}, {"1e-7", false, true},
		{"1e-07", false, false}, {"", false, false}, {"-", false, false}, {"x", false, false},
	} {
		for whole, want := range map[bool]bool{true: test.whole, false: test.decimal} {
			l := storedjson.NewLexer([]byte(test.text))
			if l.Number(whole); l.Done() != want {
				t.Errorf("%q, whole %v: %v, want %v", test.text, whole, l.Done(), want)
			}
		}
	}
}

// TestRefusedReadsNothing sees that a Lexer stays at the end after it refused something.
func TestRefusedReadsNothing(t *testing.T) {
	l := storedjson.NewLexer([]byte(`{"a":1}`))
	l.Expect('[')
	if l.Peek() != 0 || l.Take('{') || l.BeginObject() || l.NextField() || l.Value() != nil || l.Name() != nil || l.Word("true") {
		t.Error("something was read")
	}
	if l.Done() || !l.Refused() {
		t.Error("the refusal is forgotten")
	}
}

func TestWriter(t *testing.T) {
	w := storedjson.Writer{}
	w.Begin('{')
	w.Name("a<b")
	w.Begin('[')
	for i := range 3 {
		w.Comma()
		w.Int(int64(i))
	}
	w.End(']')
	w.PlainName("empty")
	w.Begin('{')
	w.Entries("")
	w.End('}')
	w.Entries(`"c":true`)
	w.PlainName("d")
	w.Marshal(map[string]any{"e": 1.5})
	w.PlainName("f")
	w.Bool(false)
	w.End('}')
	const want = `{"a\u003cb":[0,1,2],"empty":{},"c":true,"d":{"e":1.5},"f":false}`
	if string(w.Text) != want || w.Err != nil {
		t.Errorf("%s, %v; want %s", w.Text, w.Err, want)
	}
	if w.Marshal(func() {}); w.Err == nil {
		t.Error("a function was encoded")
	}
}

func TestMinimal(t *testing.T) {
	for stored, want := range map[string]string{
		`"a\u003cb\u0026"`:     `"a<b&"`,
		`"\u2028"`:             "\"\u2028\"",
		`"\u0022\u005C\n\/"`:   `"\"\\\n/"`,
		`"\u0001\\u003c"`:      `"\u0001\\u003c"`,
		`{"a":["\u00e9",1.0]}`: `{"a":["é",1.0]}`,
	} {
		if got := storedjson.AppendMinimal(nil, []byte(stored)); string(got) != want {
			t.Errorf("%s is %s, want %s", stored, got, want)
		}
	}
	for text, want := range map[string]bool{`"\ud83d\ude00"`: true, `"\\ud83d"`: false, `"\\\uD83D"`: true, `"\u0d00"`: false} {
		if got := storedjson.HasSurrogates([]byte(text)); got != want {
			t.Errorf("%s has surrogates: %v", text, got)
		}
	}
}

func ExampleLexer() {
	l := storedjson.NewLexer([]byte(`{"kind":"Thing","spec":{"size":3}}`))
	for ok := l.BeginObject(); ok; ok = l.NextField() {
		fmt.Printf("%s is %s\n", l.Name(), l.Value())
	}
	fmt.Println(l.Done())
	// Output:
	// kind is "Thing"
	// spec is {"size":3}
	// true
}
