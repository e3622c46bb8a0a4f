// SPDX-License-Identifier: Apache-2.0
// The public header in a C++ program.
#include "sluice.h"
#include "sluice_bus.h"

int main()
{
    sluice_error error;
    sluice *s = nullptr;
    return sluice_open("", nullptr, &s, &error) == SLUICE_INVALID ? 0 : 1;
}
