// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/sluicetest"
)

// buildReadme builds the programs of README.md that are whole, for a node at the URL.
func buildReadme(t *testing.T, url string) (programs []string) {
	here := must[string](t)(os.Getwd())
	readme := must[[]byte](t)(os.ReadFile("README.md"))
	for _, block := range regexp.MustCompile("(?s)```go\n(package main\n.*?)```").FindAllSubmatch(readme, -1) {
		folder := t.TempDir()
		text := strings.ReplaceAll(string(block[1]), "http://127.0.0.1:7333", url)
		module := "module mail\n\ngo 1.19\n\nrequire sluice v0.0.0\n\nreplace sluice => " + here + "\n"
		for name, content := range map[string]string{"main.go": text, "go.mod": module} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		build := exec.Command("go", "build", "-o", "program", ".")
		build.Dir = folder
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		programs = append(programs, filepath.Join(folder, "program"))
	}
	return programs
}

func TestTheProgramsOfTheReadme(t *testing.T) {
	t.Parallel()
	programs := buildReadme(t, sluicetest.Start(t, "mem:", "127.0.0.1:0").URL)
	if len(programs) != 2 {
		t.Fatalf("README.md has %d programs", len(programs))
	}
	worker := exec.Command(programs[1])
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Process.Kill() }()
	if out := must[[]byte](t)(exec.Command(programs[0]).Output()); !bytes.Equal(out, []byte("sent to ann\n")) {
		t.Errorf("the producer prints %q", out)
	}
	_ = worker.Process.Signal(os.Interrupt)
	late := time.AfterFunc(20*time.Second, func() { _ = worker.Process.Kill() })
	defer late.Stop()
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ends with %v", err)
	}
}
