package display

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
)

//go:embed page.css
var pageStyle string

//go:embed charts.css
var chartStyle string

//go:embed head.html
var pageHead string

// Page makes a page of a template, which begins with {{template "head" "title"}}. The page is
// one file that loads nothing, and follows the reader's choice of a light or a dark scheme. A
// style element with {{charts}} in it has the look of bars and legends.
// The template escapes all text.
func Page(text string, functions template.FuncMap, data any) ([]byte, error) {
	styles := template.FuncMap{
		"style":  func() template.CSS { return template.CSS(pageStyle) },
		"charts": func() template.CSS { return template.CSS(chartStyle) },
	}
	t, err := template.New("page").Funcs(styles).Funcs(functions).Parse(pageHead + text)
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
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return writeTo(name, content) // a pipe, a device or a link: nothing may take its place
	}
	file, err := createBeside(name)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// createBeside creates a file for what is to become another one.
func createBeside(name string) (*os.File, error) {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return file, nil
}

// CheckFile returns an error if WriteFile cannot write a file, so that a command says so before
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
	file, err := createBeside(name)
	if err != nil {
		return fmt.Errorf("%w: give another file", err)
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// writeTo writes to what exists.
func writeTo(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = file.Write(content)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
