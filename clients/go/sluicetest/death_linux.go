// SPDX-License-Identifier: Apache-2.0

package sluicetest

import "syscall"

func deathSignal() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
