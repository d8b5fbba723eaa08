package display

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"reflect"
)

//go:embed page.css
var pageStyle string

//go:embed charts.css
var chartStyle string

//go:embed head.html
var pageHead string

// WritePage executes an HTML template on data, and writes the page to a file. text is the
// template. It must start with {{template "head" "title"}}, which supplies the doctype and the
// stylesheet. {{charts}} within a style element adds the styles of bars and legends.
//
// The page is one file that loads nothing, for light and dark screens. The template escapes all
// data. It has the functions count, size and seconds, which take any number, and the given ones.
func WritePage(name, text string, functions template.FuncMap, data any) error {
	common := template.FuncMap{
		"style":   func() template.CSS { return template.CSS(pageStyle) },
		"charts":  func() template.CSS { return template.CSS(chartStyle) },
		"count":   func(n any) string { return Count(numberOf(n)) },
		"size":    func(n any) string { return Size(numberOf(n)) },
		"seconds": func(n any) string { return Seconds(numberOf(n)) },
	}
	t, err := template.New("page").Funcs(common).Funcs(functions).Parse(pageHead + text)
	if err != nil {
		return fmt.Errorf("parse template of the page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("execute template of the page: %w", err)
	}
	return writeWhole(name, b.Bytes())
}

// numberOf returns a number of any type, or the number that a pointer points to. It panics for
// anything else, which a template turns into an error.
func numberOf(n any) float64 {
	switch v := reflect.Indirect(reflect.ValueOf(n)); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	default:
		return v.Float()
	}
}
