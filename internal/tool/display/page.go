package display

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/millrace/millrace/internal/conn/datadir"
)

//go:embed page.css
var pageStyle string

//go:embed charts.css
var chartStyle string

//go:embed head.html
var pageHead string

// WritePage writes a page of a template, which begins with {{template "head" "title"}}. The page is
// one file that loads nothing, and follows the reader's choice of a light or a dark scheme. A
// style element with {{charts}} in it has the look of bars and legends.
//
// The template escapes all text. Its functions count, size and seconds take any number.
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
		return fmt.Errorf("read template of the page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return writeFile(name, b.Bytes())
}

// numberOf is a number of any type, or the one that a pointer points to.
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

// writeFile writes a file in one piece, so that a full disk leaves no half of it.
func writeFile(name string, content []byte) error {
	var err error
	if info, failed := os.Lstat(name); failed == nil && !info.Mode().IsRegular() {
		err = os.WriteFile(name, content, 0) // a pipe, a device or a link: nothing may take its place
	} else {
		err = datadir.ReplaceFile(name, 0o644, func(out io.Writer) error {
			_, err := out.Write(content)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// CheckFile returns an error if WritePage cannot write a file, so that a command says so before
// it begins work that takes long. No name means no file.
func CheckFile(name string) error {
	if name == "" {
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("write %s: it is a directory: give a file", name)
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w: give another file", name, err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
