// SPDX-License-Identifier: Apache-2.0

// Renders the chart with Go's own templates, as Helm does, where Helm is not installed. Debian has no Helm. It has the
// functions that the chart uses and no more, so a template that needs another one fails here.
//
//	render TEMPLATE... < {"Values":, "Chart":, "Release":}
//
// Prints the documents of all templates. toYaml writes JSON, which is YAML too.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"
)

func integer(v any) int {
	number, ok := v.(float64)
	if !ok {
		return v.(int)
	}
	return int(number)
}

func empty(v any) bool {
	truth, ok := template.IsTrue(v)
	return !ok || !truth
}

func functions(t *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var text strings.Builder
			err := t.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"toYaml": func(v any) (string, error) {
			text, err := json.Marshal(v)
			if text[0] == '{' { // labels of another map may stand beside these
				var lines []string
				for name, value := range v.(map[string]any) {
					one, _ := json.Marshal(value)
					lines = append(lines, fmt.Sprintf("%q: %s", name, one))
				}
				sort.Strings(lines)
				return strings.Join(lines, "\n"), err
			}
			return string(text), err
		},
		"add": func(numbers ...any) int {
			sum := 0
			for _, number := range numbers {
				sum += integer(number)
			}
			return sum
		},
		"default": func(otherwise, v any) any {
			if empty(v) {
				return otherwise
			}
			return v
		},
		"nindent": func(spaces int, text string) string {
			pad := "\n" + strings.Repeat(" ", spaces)
			return pad + strings.ReplaceAll(text, "\n", pad)
		},
		"trunc": func(length int, text string) string {
			if len(text) > length {
				return text[:length]
			}
			return text
		},
		"contains":   func(part, text string) bool { return strings.Contains(text, part) },
		"trimSuffix": func(end, text string) string { return strings.TrimSuffix(text, end) },
		"fail":       func(words string) (string, error) { return "", errors.New(words) },
		"int":        integer,
		"lower":      strings.ToLower,
		"quote":      func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
	}
}

func run() error {
	var data map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&data); err != nil {
		return err
	}
	t := template.New("chart").Option("missingkey=zero")
	t.Funcs(functions(t))
	if _, err := t.ParseFiles(os.Args[1:]...); err != nil {
		return err
	}
	for _, path := range os.Args[1:] {
		if strings.HasPrefix(filepath.Base(path), "_") {
			continue
		}
		var text strings.Builder
		if err := t.ExecuteTemplate(&text, filepath.Base(path), data); err != nil {
			return err
		}
		if strings.TrimSpace(text.String()) != "" {
			fmt.Printf("---\n%s\n", text.String())
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
