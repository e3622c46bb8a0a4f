// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sluicetest

import "syscall"

func deathSignal() *syscall.SysProcAttr { return nil }
