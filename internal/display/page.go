package display

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
)

//go:embed page.css
var pageStyle string

//go:embed head.html
var pageHead string

// Page makes a page of a template, which begins with {{template "head" "title"}}. The page is
// one file that loads nothing, and follows the reader's choice of a light or a dark scheme.
// The template escapes all text.
func Page(text string, functions template.FuncMap, data any) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{"style": func() template.CSS { return template.CSS(pageStyle) }}).Funcs(functions).Parse(pageHead + text)
	if err != nil {
		return nil, fmt.Errorf("read template of the page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	return b.Bytes(), nil
}

// WriteFile writes a file in one piece, so that a full disk leaves no half of it.
func WriteFile(name string, content []byte) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeTo(name, content) // a pipe or a device: nothing may take its place
	}
	temporary := name + ".part"
	err := os.WriteFile(temporary, content, 0o644)
	if err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary) // it may not be there
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// CheckFile returns an error if WriteFile cannot write a file, so that a command says so before
// it begins work that takes long. No name means no file.
func CheckFile(name string) error {
	if name == "" {
		return nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil
	}
	temporary := name + ".part"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w: give another file", name, err)
	}
	return errors.Join(file.Close(), os.Remove(temporary))
}

// writeTo writes to what exists.
func writeTo(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		_, err = file.Write(content)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
